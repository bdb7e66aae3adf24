/** The error for a violation of the protocol by the peer: one error code, and a fault name for messages and counters. */
import { BatonError } from '../base/index.ts'
import type { ErrorData } from '../base/index.ts'

export type ProtocolFault =
  | 'frame.too_long'
  | 'frame.unknown_tag'
  | 'frame.after_end'
  | 'frame.damaged'
  | 'message.truncated'
  | 'message.malformed'
  | 'message.unexpected'
  | 'message.out_of_range'
  | 'hello.bad_magic'
  | 'hello.expected'

export function protocolError(
  reason: ProtocolFault,
  message: string,
  data: ErrorData = {},
  cause?: unknown,
): BatonError {
  return new BatonError('transport.protocol', message, {
    data: { reason, ...data },
    ...(cause === undefined ? {} : { cause }),
  })
}
