/**
 * Writes the pages of docs/ that are made from the code.
 */
import { writeFileSync } from 'node:fs'
import { configurationPage, metricsPage } from './generated-docs.ts'

writeFileSync(new URL('../docs/configuration.md', import.meta.url), configurationPage())
writeFileSync(new URL('../docs/metrics.md', import.meta.url), metricsPage())
