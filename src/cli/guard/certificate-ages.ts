/**
 * Warns before the certificates of this process expire, when they have, and while they are not valid yet. Everything
 * works until the last second, and then no new connection is made.
 */
import type { Clock, Timer } from '../../base/index.ts'
import { certificateOf } from './pem-files.ts'

export type CertificateTerm = Readonly<Record<'validFrom' | 'validTo', string>>

export interface NamedCertificate {
  readonly flag: string
  readonly path: string
  readonly pem: string
}

interface CertificateAgesOptions {
  readonly clock: Clock
  /** As they are in use now. */
  readonly certificates: () => readonly NamedCertificate[]
  /** Called when the warning about the certificate of an option changes, once a day at most; null: it is gone. */
  readonly tell: (flag: string, warning: string | null) => void
}

const LOOK_MS = 1000
const DAY_MS = 24 * 60 * 60 * 1000
const WARNED_DAYS = 14
/** Certificates that live for hours or days are renewed when a third of that is left; the warning is for those that are not. */
const WARNED_SHARE = 1 / 4

export class CertificateAges {
  readonly #options: CertificateAgesOptions
  readonly #told = new Map<string, string>()
  /** By the text of the certificate. */
  #terms: ReadonlyMap<string, CertificateTerm> = new Map()
  #timer: Timer | null = null

  constructor(options: CertificateAgesOptions) {
    this.#options = options
    if (options.certificates().length > 0) this.#look()
  }

  close(): void {
    this.#timer?.cancel()
  }

  #look(): void {
    const { clock, certificates, tell } = this.#options
    const terms = new Map<string, CertificateTerm>()
    for (const certificate of certificates()) {
      const { flag, pem } = certificate
      const term = this.#terms.get(pem) ?? certificateOf(flag, pem)
      terms.set(pem, term)
      const warning = ageWarning(certificate, term, clock.epochMs())
      if (warning === (this.#told.get(flag) ?? null)) continue
      if (warning === null) this.#told.delete(flag)
      else this.#told.set(flag, warning)
      tell(flag, warning)
    }
    this.#terms = terms
    this.#timer = clock.after(LOOK_MS, () => this.#look())
  }
}

/** Null: it is valid, and for long enough. */
export function ageWarning(
  { flag, path }: Pick<NamedCertificate, 'flag' | 'path'>,
  { validFrom, validTo }: CertificateTerm,
  nowEpochMs: number,
): string | null {
  const leftMs = Date.parse(validTo) - nowEpochMs
  const name = `the certificate of ${flag} (${path})`
  const advice = 'replace the file, it is read again'
  if (leftMs < 0) return `${name} expired on ${validTo} and is refused: ${advice}`
  if (nowEpochMs < Date.parse(validFrom)) {
    return `${name} is not valid before ${validFrom} and is refused: correct the clock, or ${advice}`
  }
  if (leftMs >= warnedBeforeMs({ validFrom, validTo })) return null
  const days = Math.floor(leftMs / DAY_MS)
  const left = days === 0 ? 'in less than a day' : `in ${days} day${days === 1 ? '' : 's'}`
  return `${name} expires ${left}, on ${validTo}: ${advice}`
}

/** So long before its end a certificate should have been replaced. */
export function warnedBeforeMs({ validFrom, validTo }: CertificateTerm): number {
  return Math.min(
    WARNED_DAYS * DAY_MS,
    WARNED_SHARE * (Date.parse(validTo) - Date.parse(validFrom)),
  )
}
