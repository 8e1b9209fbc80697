/* serve.h - the writer process: puts images on the disk, commits points, reads them back.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CKPT_WRITER_SERVE_H
#define LOCKSTEP_CKPT_WRITER_SERVE_H

#include "core/err.h"

/* Serves the engine at the other end of the socket until that end is closed and everything is written, or the deadline has
 * passed.  `trainer` is a pidfd of the program, or -1.  `signals` is a signalfd: after SIGTERM the deadline runs.  0, or -errno if something was not written.
 */
int writer_serve(int socket, int trainer, int signals, struct err *err);

#endif
