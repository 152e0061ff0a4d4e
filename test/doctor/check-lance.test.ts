import { describe, expect, it } from 'vitest';
import { checkLance } from '../../src/doctor/check-lance.ts';
import type { TrainingConfig } from '../../src/schemas/training-config.ts';
import { isLanceInstalled } from '../retrieval/dense/lance-installed.ts';

const configOf = (engine: string) => ({ environment: { id: 'search-r1', args: { engine }, evalArgs: {} } }) as unknown as TrainingConfig;

describe('checkLance', () => {
  it.runIf(isLanceInstalled())('finds LanceDB where it is installed', async () => {
    expect(await checkLance(null)).toMatchObject({ name: 'lancedb', state: 'ok' });
  });

  it.runIf(!isLanceInstalled())('shows the command that installs it to a run that needs it, and to no other', async () => {
    expect(await checkLance(configOf('hybrid'))).toMatchObject({ state: 'missing', remedy: 'npm install @lancedb/lancedb@0.39.0' });
    expect(await checkLance(configOf('bm25'))).toMatchObject({ state: 'skipped' });
  });
});
