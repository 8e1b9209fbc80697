/* complete.h - whether the files of a checkpoint are all there and have the form that their formats demand.
 *
 * A format that is not known here is not judged; its files are digested only (SEAL_OTHER).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CKPT_SEAL_COMPLETE_H
#define LOCKSTEP_CKPT_SEAL_COMPLETE_H

#include "ckpt/seal/seal_scan.h"

/* Sets file->format.  A safetensors file fills *ret, to be released.  -EPROTO: refused, err says why. */
int complete_file(int fd, struct seal_entry *file, struct safetensors *ret, struct err *err);
/* After seal_scan_file(): a file of zeros, or one that ends with zeros which the format does not explain.  A crash of a node leaves such
 * files.
 */
int complete_zeros(const struct seal_entry *file, const struct seal_scan *scan, struct err *err);
/* All files together: what an index, the metadata of DCP or a numbered name demands. */
int complete_tree(int dir_fd, const struct seal *seal, struct err *err);

#endif
