/** One line of `asked.jsonl`: what a rollout asked of models beside the policy. docs/roles.md tells every field. */
import { type Static, type TSchema, Type } from 'typebox';

const Nullable = <T extends TSchema>(schema: T) => Type.Union([schema, Type.Null()]);
const Count = Type.Integer({ minimum: 0 });

const Content = Type.Union([
  Type.String(),
  Type.Array(
    Type.Union([
      Type.Object({ type: Type.Literal('text'), text: Type.String() }),
      Type.Object({
        type: Type.Literal('image'),
        image: Type.Object({ sha256: Type.String(), media_type: Type.String(), width: Count, height: Count }),
      }),
    ]),
  ),
]);

const AskedSchema = Type.Object({
  role: Type.String(),
  model: Type.String(),
  /** Of the policy, where it played the role. */
  version: Nullable(Count),
  usage: Type.Object({ input_tokens: Count, output_tokens: Count, cached_tokens: Nullable(Count) }),
  finish: Type.Union([Type.Literal('stop'), Type.Literal('length')]),
  ms: Type.Number(),
  wait_ms: Type.Number(),
  /** 0: answered from the cache. */
  attempts: Count,
  messages: Type.Array(
    Type.Object({
      role: Type.String(),
      content: Content,
      tool_calls: Type.Optional(Type.Array(Type.Object({ id: Type.String(), name: Type.String(), arguments: Type.String() }))),
      tool_call_id: Type.Optional(Type.String()),
    }),
  ),
  text: Type.String(),
});
export type WireAsked = Static<typeof AskedSchema>;

export const AskedLineSchema = Type.Object({
  schema_version: Type.Literal(1),
  rollout_id: Type.String(),
  asked: Type.Array(AskedSchema),
});
export type WireAskedLine = Static<typeof AskedLineSchema>;

/** As `roles` of summaries and of metadata.json has it, by role. */
export const RoleStatsSchema = Type.Object({
  models: Type.Array(Type.String()),
  calls: Count,
  cache_hits: Count,
  requests: Count,
  failures: Count,
  tokens: Type.Object({ input: Count, output: Count, cached: Nullable(Count) }),
  latency_ms: Nullable(Type.Object({ p50: Type.Number(), p90: Type.Number(), p99: Type.Number() })),
  wait_ms: Nullable(Type.Object({ p50: Type.Number(), p90: Type.Number(), p99: Type.Number() })),
});
export type WireRoleStats = Static<typeof RoleStatsSchema>;
