"""Published data sets: their readers, addresses and checksums, and their download.

- `remote_set`: records of a published set.
- `fetch`: download, local folders and verification.
- `mnist`: MNIST and Fashion-MNIST.
- `emnist`: EMNIST, letters and digits.
- `cifar10`: CIFAR-10.
- `cinic10`: CINIC-10, CIFAR-10's classes with pictures of ImageNet too.
- `tiny_imagenet`: Tiny ImageNet, 200 classes.
- `celeba`: CelebA, faces by person.
- `extrasensory`: ExtraSensory, activities of people.
- `shakespeare`: Shakespeare's plays, next character.
- `plays`: files of the plays, with checksums.
- `wikitext`: WikiText-2, next token.
"""
