"""Published data sets: their readers, addresses and checksums, and their download.

- `fetch`: Published data sets: download, local folders, and verification of the files.
- `mnist`: MNIST, Fashion-MNIST and EMNIST: gray images of characters and clothes in IDX files.
- `cifar10`: CIFAR-10 and CINIC-10: ten classes of small colour pictures.
- `tiny_imagenet`: Tiny ImageNet: 200 classes of ImageNet in pictures of 64 x 64 pixels.
- `celeba`: CelebA: faces of people by person, and whether they smile.
- `texts`: Texts whose next token is predicted.
- `extrasensory`: ExtraSensory.
"""
