/** The wire against what verifiers 0.4.0 was recorded to send and to read (test/golden/producers/verifiers_wire.py). */
import { describe, expect, it } from 'vitest';
import type { WireDelta } from '../../../src/schemas/verifiers-wire/episode.ts';
import { golden, type Recording, serveWire, type ServeWireOptions, type Answered } from './wire-client.ts';

const { requests, delta: known, records } = golden;

async function replay(recording: Recording, options: ServeWireOptions = {}): Promise<Answered> {
  await using served = await serveWire(options);
  return await served.client.askBytes(recording.method, Buffer.from(recording.payload, 'hex'), recording.request_id);
}

/** Each field is one of the record's, and no required one is missing. */
function fits(record: string, value: object): void {
  const fields = records[record]!;
  const names = Object.keys(value);
  expect({ record, unknown: names.filter((name) => !(name in fields)) }).toEqual({ record, unknown: [] });
  expect({ record, missing: Object.keys(fields).filter((name) => fields[name] && !names.includes(name)) }).toEqual({ record, missing: [] });
}

function traceFits({ open, nodes, calls, errors, set }: WireDelta): void {
  fits('Trace', { ...open, nodes, calls, errors, ...set });
  fits('VersionInfo', open.verifiers);
  fits('TraceTask', open.task);
  for (const node of nodes) {
    fits('MessageNode', node);
    const { role, tool_calls: toolCalls = [] } = node.message;
    fits(`${role[0]!.toUpperCase()}${role.slice(1)}Message`, node.message);
    for (const call of toolCalls) fits('ToolCall', call);
  }
  for (const call of calls) {
    fits('ModelCall', call);
    fits('Usage', call.usage);
  }
  for (const error of errors) fits('Error', error);
  for (const tool of set.tools) fits('Tool', tool);
  for (const reward of Object.values(set.rewards)) if (reward !== null) fits('Reward', reward);
  fits('AgentInfo', set.agent);
  const { setup, agent, scoring } = set.timing;
  fits('Timing', set.timing);
  for (const span of [setup, scoring]) fits('TimeSpan', span);
  fits('AgentSpan', agent);
  for (const split of [agent.model, agent.harness]) fits('TimeSplit', split);
}

describe('the wire of verifiers 0.4.0', () => {
  it('was recorded from 0.4.0', () => {
    expect(golden.versions['verifiers']).toBe('0.4.0');
  });

  it('answers the recorded health request', async () => {
    expect(await replay(requests.health)).toEqual({ deltas: [], reply: { success: true, error: null } });
  });

  it.each(['run_eval', 'run_train', 'run_slow'] as const)(
    'answers the recorded %s with records that the client reads, field by field',
    async (name) => {
      const { deltas, reply } = await replay(requests[name]);
      expect(deltas).toHaveLength(1);
      const [delta] = deltas as [WireDelta];
      const { trace, open, set, ...lists } = delta;
      expect(trace).toBe(open.id);
      expect(Object.keys(open).toSorted()).toEqual(known.open.toSorted());
      expect(known.lists).toEqual(expect.arrayContaining(Object.keys(lists)));
      expect(known.set).toEqual(expect.arrayContaining(Object.keys(set)));
      traceFits(delta);
      fits('RunResponse', reply);
      fits('Episode', reply.head!);
      fits('TraceSummary', reply.traces![0]);
      expect(reply.traces).toEqual([{ id: trace, nodes: delta.nodes.length, calls: delta.calls.length }]);
      expect(open.task).toMatchObject({ data: requests[name].read['task_data'], key: 'row-1', hash: 'row-1' });
    },
  );

  it('reports a failed rollout in records that the client reads', async () => {
    const { deltas, reply } = await replay(requests.run_train, { script: { turns: () => Promise.reject(new Error('lost')) } });
    traceFits(deltas[0]!);
    fits('Episode', reply.head!);
    expect(deltas[0]!.errors).not.toEqual([]);
  });

  it('answers the recorded cancellation of the recorded run, and the run itself', async () => {
    const playing = Promise.withResolvers<void>();
    await using served = await serveWire({
      script: {
        turns: () => {
          playing.resolve();
          return new Promise<never>(() => {});
        },
      },
    });
    const send = ({ method, payload, request_id: id }: Recording) => served.client.askBytes(method, Buffer.from(payload, 'hex'), id);
    const running = send(requests.run_slow);
    await playing.promise;
    const cancelled = await send(requests.cancel);
    fits('CancelResponse', cancelled.reply);
    expect(cancelled.reply).toEqual({ success: true, error: null, cancelled: true });
    expect(await running).toEqual({ deltas: [], reply: { success: false, error: 'Cancelled: rollout aborted' } });
    expect((await send(requests.cancel)).reply).toEqual({ success: true, error: null, cancelled: false });
  });
});
