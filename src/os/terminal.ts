/** What may be written to a terminal: nothing but text when it says that it is dumb, no colours with `NO_COLOR`. */

interface Output {
  readonly isTTY?: boolean | undefined
}

export function takesEscapes({ isTTY }: Output, environment = process.env): boolean {
  return isTTY === true && environment['TERM'] !== 'dumb'
}

export function takesColor(output: Output, environment = process.env): boolean {
  return takesEscapes(output, environment) && (environment['NO_COLOR'] ?? '') === ''
}
