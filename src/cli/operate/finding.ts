/**
 * A finding of `baton doctor`: one line that describes it, and for a problem a second line with what to do.
 */
export interface Finding {
  readonly level: 'ok' | 'warning' | 'fault'
  /** What was checked, in a word or two. */
  readonly topic: string
  readonly text: string
  readonly advice?: string
}

export const ok = (topic: string, text: string): Finding => ({ level: 'ok', topic, text })

export const warning = (topic: string, text: string, advice: string): Finding => ({
  level: 'warning',
  topic,
  text,
  advice,
})

export const fault = (topic: string, text: string, advice: string): Finding => ({
  level: 'fault',
  topic,
  text,
  advice,
})

const MARKS = { ok: 'ok  ', warning: 'WARN', fault: 'FAIL' } as const

export function findingLines(findings: readonly Finding[]): string[] {
  const width = Math.max(...findings.map(({ topic }) => topic.length))
  const lines = findings.flatMap(({ level, topic, text, advice }) => [
    `${MARKS[level]}  ${topic.padEnd(width)}  ${text}`,
    ...(advice === undefined ? [] : [`${' '.repeat(width + 8)}→ ${advice}`]),
  ])
  const count = (level: Finding['level']): number =>
    findings.filter((finding) => finding.level === level).length
  return [
    ...lines,
    '',
    `${counted(count('fault'), 'fault')}, ${counted(count('warning'), 'warning')}`,
  ]
}

/** For example `1 worker`, `2 workers`. */
export function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`
}
