"""Stacked kernel: hand-written SGD steps for many small networks at once.

- `score_gradients`: Gradients of samples' log-likelihood, or of minus their loss.
- `linear_chain`: Stack of small networks of one shape.
- `client_products`: Large products of one client's samples, for a layer in its dual form.
- `dual_chain`: Stack of small networks of one shape, the first layer of each in its dual form.
- `stacked_sgd`: Kernel that trains many small networks at once.
"""
