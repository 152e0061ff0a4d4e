import { appendFile, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { SkipKind } from '../../../src/trainer/skip-reason.ts';
import { EventLog, readSkippedSteps, readUnpublishedStep } from '../../../src/trainer/records/event-log.ts';
import type { TrainingEvent } from '../../../src/trainer/training-observer.ts';

const clock = () => new Date(0);
const time = '1970-01-01T00:00:00.000Z';
let directory: string;
let path: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'vf-events-'));
  path = join(directory, 'events.jsonl');
});
afterEach(() => rm(directory, { recursive: true }));

describe('EventLog', () => {
  it('keeps the events of all processes, without a line that was cut off', async () => {
    const first = await EventLog.open(path, { clock });
    first.append({ step: 0, kind: 'started', message: 'begins' });
    first.append({ step: 9, kind: 'backend_lost', message: 'killed' });
    await first.close();
    await appendFile(path, '{"step":9,"ki');
    const second = await EventLog.open(path, { clock });
    second.append({ step: 4, kind: 'resumed', message: 'from step 4' });
    const events = [
      { step: 0, kind: 'started', time, message: 'begins' },
      { step: 9, kind: 'backend_lost', time, message: 'killed' },
      { step: 4, kind: 'resumed', time, message: 'from step 4' },
    ];
    expect(second.count).toBe(3);
    expect(
      (await readFile(path, 'utf8'))
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line) as unknown),
    ).toEqual(events);
    await second.close();
  });

  it('writes no secret', async () => {
    const log = await EventLog.open(path, { clock, redact: (text) => text.replaceAll('sk-1234', '***') });
    log.append({ step: 1, kind: 'policy_lost', message: 'no answer from http://me:pw@host/v1 with sk-1234' });
    expect(await readFile(path, 'utf8')).toBe(
      `{"step":1,"kind":"policy_lost","time":"${time}","message":"no answer from http://***@host/v1 with ***"}\n`,
    );
    await log.close();
  });

  it('names the line that is not an event', async () => {
    await appendFile(path, '{"step":1}\n');
    await expect(EventLog.open(path, { clock })).rejects.toThrow(/Line 1 of .*events\.jsonl is not an event/);
  });
});

describe('readSkippedSteps', () => {
  it('counts the recorded reasons of the steps by kind, a repeated step by its last event, and reads those of earlier versions', async () => {
    const log = await EventLog.open(path, { clock });
    const skip = (step: number, text: string, reason?: SkipKind) =>
      log.append({ step, kind: 'step_skipped', message: `No update: ${text}`, ...(reason === undefined ? {} : { reason }) });
    skip(1, 'all equal', 'constant');
    skip(2, '7 of 8 failed', 'failed');
    skip(3, '6 of 8 failed', 'failed');
    skip(2, '5 of 8 failed', 'failed');
    skip(4, 'an old text');
    skip(5, 'applied in the end', 'failed');
    log.append({ step: 3, kind: 'alarm', message: 'No update: of another kind' });
    await log.close();
    await appendFile(path, '{"step":9,"ki');
    expect(await readSkippedSteps(path, new Set([1, 2, 3, 4]))).toEqual([
      { kind: 'failed', text: 'in step 3, the last of these, 6 of 8 failed', steps: 2 },
      { kind: 'constant', text: 'all equal', steps: 1 },
      { kind: null, text: 'an old text', steps: 1 },
    ]);
    expect(await readSkippedSteps(join(directory, 'none.jsonl'), new Set([1]))).toEqual([]);
  });
});

describe('readUnpublishedStep', () => {
  const written = async (...kinds: readonly [TrainingEvent['kind'], number][]) => {
    const log = await EventLog.open(path, { clock });
    for (const [kind, step] of kinds) log.append({ step, kind, message: '' });
    await log.close();
    return readUnpublishedStep(path);
  };

  it('is the step of the last publish that failed, until another process opens the run', async () => {
    expect(await written(['started', 0])).toBeNull();
    expect(await written(['publish_failed', 2], ['alarm', 2], ['publish_failed', 3], ['finished', 3])).toBe(3);
    expect(await written(['resumed', 3], ['finished', 3])).toBeNull();
  });
});
