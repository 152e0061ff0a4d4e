/** The executors that are processes, where this machine can start them. VF_REQUIRE_BUBBLEWRAP=1 makes a machine without bubblewrap a failure. */
import { describe, expect, it } from 'vitest';
import { openExecutor } from '../../src/execution/index.ts';
import { codeExecutorContract, HONEST, runOn } from '../contracts/code-executor.ts';
import { isolationContract } from '../contracts/code-executor-attacks.ts';
import { whyMissing } from './missing-executor.ts';

const bubblewrap = await whyMissing('bubblewrap');
describe.skipIf(bubblewrap !== null)(`ProcessExecutor with bubblewrap${bubblewrap === null ? '' : ` (skipped: ${bubblewrap})`}`, () => {
  codeExecutorContract(() => openExecutor('bubblewrap', { workers: 2, cacheBytes: 0 }), { tags: 'long' });
  isolationContract(() => openExecutor('bubblewrap', { workers: 1, cacheBytes: 0 }), 1);
});

const none = await whyMissing('none');
const skipped = none === null ? '' : ` (skipped: ${none})`;
// With bubblewrap it is the same interpreter behind another command.
describe.skipIf(none !== null)(`ProcessExecutor without isolation${skipped}`, bubblewrap === null ? { tags: 'long' } : {}, () => {
  codeExecutorContract(() => openExecutor('none', { workers: 2, cacheBytes: 0 }));
});

it.skipIf(none !== null)(`ProcessExecutor without isolation${skipped} runs a program, ends one at its deadline, and goes on`, async () => {
  const executor = await openExecutor('none', { workers: 1, cacheBytes: 0 });
  try {
    expect(await runOn(executor, HONEST.code, HONEST.calls)).toEqual(HONEST.result);
    expect(await runOn(executor, 'def f(a):\n  while True: pass', ['1'], { seconds: 0.3 })).toMatchObject({ kind: 'timeout' });
    expect(await runOn(executor, HONEST.code, HONEST.calls)).toEqual(HONEST.result);
  } finally {
    await executor.close();
  }
});

it.runIf(process.env['VF_REQUIRE_BUBBLEWRAP'] === '1')('has bubblewrap', () => {
  expect(bubblewrap).toBeNull();
});
