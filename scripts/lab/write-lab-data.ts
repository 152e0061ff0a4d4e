/** Runs after the bundles are built: writes the settings, rows and passages of the lab to dist/web/lab/lab.json. */
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { labData } from './lab-data.ts';

const path = join(import.meta.dirname, '../../dist/web/lab/lab.json');
const text = JSON.stringify(await labData());
if (!existsSync(path) || readFileSync(path, 'utf8') !== text) {
  mkdirSync(dirname(path), { recursive: true });
  // A new file appears whole: programs may serve dist/, or build it too, meanwhile.
  const whole = `${path}.${process.pid}`;
  writeFileSync(whole, text);
  renameSync(whole, path);
}
