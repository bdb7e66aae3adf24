/** Combines several observers; each call reaches all of them in order. */
export function observeWithAll<Told extends readonly unknown[]>(
  observers: readonly ((...told: Told) => void)[],
): (...told: Told) => void {
  return (...told) => {
    for (const observe of observers) observe(...told)
  }
}
