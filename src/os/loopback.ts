/** True when only this machine can reach a listening address, so that nothing else has to protect it. */
const LOOPBACK = /^(127\.|::1$|localhost$)/

export function isLoopback(host: string): boolean {
  return LOOPBACK.test(host)
}
