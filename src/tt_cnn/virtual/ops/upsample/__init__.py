"""Upsampling: nearest and bilinear."""
