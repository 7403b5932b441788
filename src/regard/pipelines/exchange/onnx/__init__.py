"""Runs of any task as ONNX graphs."""
