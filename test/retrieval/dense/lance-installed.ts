import { existsSync } from 'node:fs';
import { join } from 'node:path';

const folder = join(import.meta.dirname, '../../../node_modules/@lancedb/lancedb');

/** Whether LanceDB is installed; scripts/lancedb/install.sh installs it. Throws where tests must not be skipped. */
export function isLanceInstalled(): boolean {
  if (existsSync(folder)) return true;
  if (process.env['VF_REQUIRE_LANCEDB'] !== undefined) throw new Error('VF_REQUIRE_LANCEDB is set, but LanceDB is not installed.');
  return false;
}
