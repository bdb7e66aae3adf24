/**
 * The string formats that are enforced, as patterns. They allow fewer texts than the formats do (no leap days, no
 * quoted local parts).
 */
const TIME = String.raw`([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,6})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)`
/** Every date that exists in all years. */
const DATE = String.raw`[12]\d{3}-((0[13578]|1[02])-(0[1-9]|[12]\d|3[01])|(0[469]|11)-(0[1-9]|[12]\d|30)|02-(0[1-9]|1\d|2[0-8]))`
const LABEL = '[a-z0-9]{1,20}(-[a-z0-9]{1,20}){0,3}'
const HOST = String.raw`${LABEL}(\.${LABEL}){0,3}\.[a-z]{2,10}`
/** A character of a path, query or fragment. */
const URI_CHAR = String.raw`([A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-F]{2})`
const BYTE = String.raw`(\d|[1-9]\d|1\d\d|2[0-4]\d|25[0-5])`

const FORMATS: Readonly<Record<string, string>> = {
  date: DATE,
  time: TIME,
  'date-time': `${DATE}T${TIME}`,
  duration: String.raw`P(\d{1,3}[YMWD]|\d{1,3}DT\d{1,2}H|T\d{1,3}[HMS])`,
  email: String.raw`[a-z0-9]{1,20}([._+-][a-z0-9]{1,20}){0,3}@${HOST}`,
  hostname: HOST,
  ipv4: String.raw`${BYTE}(\.${BYTE}){3}`,
  ipv6: '[0-9a-f]{1,4}(:[0-9a-f]{1,4}){7}',
  uri: String.raw`([a-z][a-z0-9]{1,9}://${HOST}(:([1-9]\d{0,3}|[1-5]\d{4}))?([/?]${URI_CHAR}*)?|(mailto|urn|tel|data):${URI_CHAR}+)(#${URI_CHAR}*)?`,
  uuid: '[0-9a-f]{8}-[0-9a-f]{4}-[1-8][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}',
}

/** The pattern of an enforced format; undefined: the format has no effect. */
export function formatPattern(format: unknown): string | undefined {
  return typeof format === 'string' && Object.hasOwn(FORMATS, format) ? FORMATS[format] : undefined
}
