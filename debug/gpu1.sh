export PYTHONPATH=src:. TT_CNN_CACHE=$HOME/cache PYTHONUNBUFFERED=1 OMP_NUM_THREADS=1
python3 debug/gelu.py > $OUT/gelu.txt 2>&1
R="timeout 500 python3 -m tests.differential.run"
(for s in 101002 101063 101538 103425 103609 103696; do $R --engines kernels --programs 1 --first $s; done > $OUT/geluseeds.txt 2>&1) &
for i in 1 2 3; do $R --engines cuda --programs 150 --first $((120000+i*1000)) > /tmp/cuda$i.txt 2>&1 & done
$R --engines cuda --programs 1 --first 22053 > /tmp/cuda22053.txt 2>&1 &
for i in 1 2; do $R --engines cuda-device --programs 110 --first $((130000+i*1000)) > /tmp/cudadev$i.txt 2>&1 & done
for i in 1 2 3; do $R --engines kernels --programs 400 --first $((140000+i*1000)) > /tmp/kernels$i.txt 2>&1 & done
timeout 400 python3 benchmarks/cuda_kernels.py > $OUT/cuda_kernels.txt 2>&1; echo "kernels rc $?"
timeout 300 python3 benchmarks/cuda_engine.py > $OUT/cuda_engine.txt 2>&1; echo "engine rc $?"
wait
cat /tmp/cuda*.txt > $OUT/diff_cuda.txt; cat /tmp/kernels*.txt > $OUT/diff_kernels.txt
tail -n 4 /tmp/cuda*.txt /tmp/kernels*.txt | cut -c1-300
tail -5 $OUT/cuda_kernels.txt; tail -30 $OUT/cuda_engine.txt; cat $OUT/gelu.txt
