/** What a command that talks to a running server says when none answers. */
import { BatonError } from '../base/index.ts'

export function noServer(url: string, cause: unknown): BatonError {
  return new BatonError(
    'transport.cannot_connect',
    `no server at ${url}: start one with 'baton serve', or name it with --url`,
    { cause },
  )
}
