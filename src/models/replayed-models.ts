/** Models by role for rollouts that are scored again: the replies that a role gave when they were played are taken from the record, and the role is not called again. */
import { type AskedRecord, type Model, type ModelReply, type ModelRequest, type RolloutModels } from '../core/model.ts';
import { canonicalJson } from '../core/canonical-json.ts';
import type { Message } from '../core/message.ts';

export interface ReplayOptions {
  /** The rollout's recorded calls that may answer. */
  readonly records: readonly AskedRecord[];
  /** Recorded calls, which come before the new ones. @default none */
  readonly before?: readonly AskedRecord[];
  /** Tells whether the role is called even if there is a recorded reply. */
  readonly asksAgain: (role: string) => boolean;
}

/** `asked` of the result holds the recorded calls that answered, unchanged, and the calls that were made. */
export function replayedModels({ models, asked: live }: RolloutModels, { records, before = [], asksAgain }: ReplayOptions): RolloutModels {
  const asked: AskedRecord[] = [...before];
  const unused = new Set(records);
  let moved = 0;
  const replayed = (role: string, model: Model): Model => ({
    name: model.name,
    async generate(messages: readonly Message[], request: ModelRequest): Promise<ModelReply> {
      const found = asksAgain(role) ? undefined : replyTo(role, messages, request, [...unused, ...records]);
      if (found === undefined) {
        try {
          return await model.generate(messages, request);
        } finally {
          // Calls that ended meanwhile may belong to another reward; each is moved once.
          for (; moved < live.length; moved++) asked.push(live[moved]!);
        }
      }
      unused.delete(found);
      asked.push(found);
      return replyOf(found);
    },
  });
  return { models: Object.fromEntries(Object.entries(models).map(([role, model]) => [role, replayed(role, model)])), asked };
}

function replyTo(role: string, messages: readonly Message[], { isUsable }: ModelRequest, records: readonly AskedRecord[]): AskedRecord | undefined {
  const wanted = canonicalJson(JSON.parse(JSON.stringify(messages)));
  return records.find((record) => record.role === role && (isUsable?.(replyOf(record)) ?? true) && canonicalJson(record.messages) === wanted);
}

function replyOf({ text, usage, finish, version, reasoning }: AskedRecord): ModelReply {
  return { text, usage, finish, version, ...(reasoning === undefined ? {} : { reasoning }) };
}
