"""Published data sets: their readers, addresses and checksums, and their download.

- `fetch`: Published data sets: download, local folders, and verification of the files.
- `mnist`: MNIST, Fashion-MNIST and EMNIST: gray images of characters and clothes in IDX files.
- `cifar10`: CIFAR-10 and CINIC-10: ten classes of small colour pictures.
- `texts`: Texts whose next token is predicted.
- `zipped_pictures`: CelebA and Tiny ImageNet.
- `extrasensory`: ExtraSensory.
"""
