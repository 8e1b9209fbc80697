/* host_wait.h - when the program waits for its device inside a library of torch.
 *
 * item(), nonzero(), bincount() and many others wait in C++, where Python sees nothing.  What the stream computed until then is the
 * device's work and not the host's, so the stream is stamped just before the wait of the
 * thread that began the step: that of another thread does not keep the program waiting.  For that the places are changed through which
 * torch's libraries call the CUDA runtime's waits (cudaStreamSynchronize() and the like) and copies between host and device, which
 * wait where the host's memory is pageable; no other library's calls are seen, and what the runtime does with them is as before.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_PROBE_HOST_WAIT_H
#define LOCKSTEP_PROBE_HOST_WAIT_H

#include "device/cuda/symbols.h"

/* `find` is dlsym().  Returns how many places were changed, 0 where nothing was found or they are changed already.  A place that
 * somebody else changed before stays as it is, and so does one
 * that the loader has not filled in yet (Python loads extensions with all of theirs filled in).  NULL: puts back what was there.  For one thread at a time.
 */
int host_waits_watch(symbol_find *find);

#endif
