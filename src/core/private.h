/* core/private.h - marks the functions of liblinnet that liblinnet-model calls and no public header declares.
 *
 * They are exported under a version of their own, by the list in cmake/linnet.map.in.  They are not for
 * others: any release may change them, so both libraries must be of the same release. */
#ifndef LNT_CORE_PRIVATE_H
#define LNT_CORE_PRIVATE_H

#if defined(__GNUC__)
#define LNT_PRIVATE_API __attribute__((visibility("default")))
#else
#define LNT_PRIVATE_API
#endif

#endif
