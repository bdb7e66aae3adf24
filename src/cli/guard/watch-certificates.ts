/** Keeps the certificates of a process new while it runs, and warns before they expire. */
import type { Clock } from '../../base/index.ts'
import { osClock } from '../../os/index.ts'
import { CertificateAges } from './certificate-ages.ts'
import type { NamedCertificate } from './certificate-ages.ts'
import type { CertificateLog } from './renewed-pems.ts'

/** Its timers do not keep the process: a warning is no reason for that, least of all when its start has failed. */
const IDLE_CLOCK: Clock = {
  ...osClock,
  after: (delayMs, fire) => {
    const timeout = setTimeout(fire, delayMs).unref()
    return { cancel: () => clearTimeout(timeout) }
  },
}

interface WatchedFiles {
  readonly certificates: readonly NamedCertificate[]
  watch(log: CertificateLog): () => void
}

/** `tellAge` as in `CertificateAges`; absent: another process tells it. Returns a function that ends it. */
export function watchCertificates(
  files: readonly (WatchedFiles | null | undefined)[],
  log: CertificateLog,
  tellAge?: (flag: string, warning: string | null) => void,
): () => void {
  const watched = files.filter((one) => one !== null && one !== undefined)
  const ends = watched.map((one) => one.watch(log))
  const ages =
    tellAge === undefined
      ? null
      : new CertificateAges({
          clock: IDLE_CLOCK,
          certificates: () => watched.flatMap(({ certificates }) => certificates),
          tell: tellAge,
        })
  return () => {
    for (const end of ends) end()
    ages?.close()
  }
}
