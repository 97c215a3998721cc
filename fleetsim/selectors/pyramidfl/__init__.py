"""PyramidFL: Oort's clients, with individual work and uploads.

- `selector`: PyramidFL.
- `equations`: Equations of PyramidFL: the work and the upload of each chosen client.
"""
