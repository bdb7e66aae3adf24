/** Whether only this machine reaches what listens at an address: then nothing else has to guard it. */
const LOOPBACK = /^(127\.|::1$|localhost$)/

export function isLoopback(host: string): boolean {
  return LOOPBACK.test(host)
}
