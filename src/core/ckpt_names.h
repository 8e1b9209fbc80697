/* ckpt_names.h - what the processes that write checkpoints call themselves, for those who must know them from ranks.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CORE_CKPT_NAMES_H
#define LOCKSTEP_CORE_CKPT_NAMES_H

#define CKPT_WRITER_COMM "ckpt-writer"
#define CKPT_HELD_COMM "ckpt-held" /* it has written everything, and keeps the last image */

#endif
