/** Writes test/api from the sources: every public name with its signature. `node scripts/api-report.ts`. A test checks that it is current. */
import { readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { publicSurface } from './api/public-surface.ts';

const folder = join(import.meta.dirname, '../test/api');
const { reports, counts, faults } = publicSurface();
for (const file of readdirSync(folder).filter((name) => name.endsWith('.txt') && !reports.has(name))) rmSync(join(folder, file));
for (const [file, text] of reports) writeFileSync(join(folder, file), text);
for (const [entry, count] of counts) process.stdout.write(`${entry.padEnd(36)}${count}\n`);
for (const fault of faults) process.stderr.write(`${fault}\n`);
process.exitCode = faults.length === 0 ? 0 : 1;
