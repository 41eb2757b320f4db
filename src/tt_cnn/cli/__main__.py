from tt_cnn.cli import main

main()
