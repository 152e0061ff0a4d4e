/** The executors that are processes, where this machine can start them. VF_REQUIRE_BUBBLEWRAP=1 makes a machine without bubblewrap a failure. */
import { describe, expect, it } from 'vitest';
import { openExecutor } from '../../src/execution/index.ts';
import { codeExecutorContract } from '../contracts/code-executor.ts';
import { isolationContract } from '../contracts/code-executor-attacks.ts';
import { whyMissing } from './missing-executor.ts';

const bubblewrap = await whyMissing('bubblewrap');
describe.skipIf(bubblewrap !== null)(`ProcessExecutor with bubblewrap${bubblewrap === null ? '' : ` (skipped: ${bubblewrap})`}`, () => {
  codeExecutorContract(() => openExecutor('bubblewrap', { workers: 2, cacheBytes: 0 }));
  isolationContract(() => openExecutor('bubblewrap', { workers: 1, cacheBytes: 0 }));
});

const none = await whyMissing('none');
describe.skipIf(none !== null)(`ProcessExecutor without isolation${none === null ? '' : ` (skipped: ${none})`}`, () => {
  codeExecutorContract(() => openExecutor('none', { workers: 2, cacheBytes: 0 }));
});

it.runIf(process.env['VF_REQUIRE_BUBBLEWRAP'] === '1')('has bubblewrap', () => {
  expect(bubblewrap).toBeNull();
});
