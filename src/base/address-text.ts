/** An address as people write it: `10.0.0.1:7000`, `[::1]:7000`. */
export function addressText(host: string, port: number): string {
  return `${host.includes(':') ? `[${host}]` : host}:${port}`
}
