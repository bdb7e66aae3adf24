/**
 * `listen` as a promise, with an error that says what to do when the address cannot be used.
 */
import type { Server } from 'node:net'

import { addressText, BatonError } from '../../base/index.ts'

export function listenOn(server: Server, host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const onError = (error: NodeJS.ErrnoException): void =>
      reject(listenError(error, { host, port }))
    server.once('error', onError)
    server.listen(port, host, () => {
      server.off('error', onError)
      resolve()
    })
  })
}

/** `remedy`: what to do when another process listens there. */
export function listenError(
  error: NodeJS.ErrnoException,
  { host, port }: { readonly host: string; readonly port: number },
  remedy = 'choose another port, or 0 for any free one',
): BatonError {
  const isTaken = error.code === 'EADDRINUSE'
  const text = isTaken
    ? `port ${port} on ${host} is in use: ${remedy}`
    : `cannot listen on ${addressText(host, port)}: ${error.message}`
  const code = isTaken ? 'host.address_in_use' : 'config.invalid'
  return new BatonError(code, text, { cause: error, data: { host, port } })
}
