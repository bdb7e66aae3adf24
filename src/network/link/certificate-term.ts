/** Whether a certificate is too old or too new. */
import type { X509Certificate } from 'node:crypto'

/** Null: the certificate is valid now. */
export function whyUnusable(
  { validFrom, validTo }: Pick<X509Certificate, 'validFrom' | 'validTo'>,
  nowEpochMs: number,
): string | null {
  if (nowEpochMs > Date.parse(validTo)) {
    return `it expired on ${validTo}: renew it, or correct a clock`
  }
  if (nowEpochMs >= Date.parse(validFrom)) return null
  return `it is not valid before ${validFrom}: correct the clock of one of the two machines`
}
