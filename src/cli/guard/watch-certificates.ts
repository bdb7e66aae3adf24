/** Keeps the certificates of a process new while it runs, and warns before they expire. */
import { osClock } from '../../os/index.ts'
import { CertificateAges } from './certificate-ages.ts'
import type { NamedCertificate } from './certificate-ages.ts'
import type { CertificateLog } from './renewed-pems.ts'

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
          clock: osClock,
          certificates: () => watched.flatMap(({ certificates }) => certificates),
          tell: tellAge,
        })
  return () => {
    for (const end of ends) end()
    ages?.close()
  }
}
