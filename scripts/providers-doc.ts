/** Writes docs/providers.md from the recorded replies in test/conformance: `node --conditions=vf-search-source scripts/providers-doc.ts`. A test checks that it is current. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Recording, readRecordings } from '../test/conformance/recording.ts';

const INTRODUCTION = `# Chat APIs, server by server

<!-- Written by scripts/providers-doc.ts from test/conformance/replies. Do not edit. -->

Policies (\`vf-eval\`), roles and pipelines ask chat APIs in one way and read their replies in one way. This page says what that way is, and where servers differ.

**From documentation.** No provider was called for this page. The replies below were written down from the servers' documentation and from public reports, which the last table
names; \`npm run conformance\` plays each of them by policy, role and pipeline. A server may have changed since: a reply that is not understood is a failed rollout with
the server's own words, never a score.

## What is sent

Only what you or the environment set: \`temperature\`, \`top_p\`, \`seed\` and \`stop\` are absent otherwise, and null in \`-S\` (\`-S '{"top_p": null}'\`) leaves a field out. A
role is asked with temperature 0 unless you set another.

- A field that the server rejects with a 400 or 422 is left out from then on, which is said once and is part of the summary: \`temperature\`, \`top_p\`, \`seed\`, \`stop\`,
  \`include_stop_str_in_output\`, and the server's own fields in messages. Of two fields that exclude each other, \`top_p\` goes. \`max_tokens\` becomes \`max_completion_tokens\`.
- A refusal of a value that you set, such as a temperature above the server's range, is your error and is not repaired.
- An assistant turn without text goes back as \`(no text)\`, or with null if it has tool calls: many servers reject an empty one.

## What is read

- \`finish_reason\`, by a closed list and in any case. *Finished*: \`stop\`, \`eos\`, \`eos_token\`, \`end_turn\`, \`stop_sequence\`, \`tool_calls\`, \`tool_use\`, \`complete\` and their kin.
  *Cut off*: \`length\`, \`max_tokens\`, \`model_length\`, \`model_context_window_exceeded\` and their kin. *Withheld*, which fails the rollout for good: \`content_filter\`, \`safety\`,
  \`sensitive\`, \`refusal\`, \`guardrail_intervened\` and their kin. **Any other, and none at all, is a failure that is asked again**: \`abort\`, \`error\`, \`network_error\`,
  \`insufficient_system_resource\`. It never counts as a finished turn.
- Text as a string or in parts; thoughts in \`reasoning_content\`, \`reasoning\`, \`reasoning_details\`, \`thinking_blocks\` or parts. Thoughts are recorded (\`reasoning\` of a segment in
  \`results.jsonl\`, of a call in \`asked.jsonl\`) and scored with their turn, between \`<think>\` and
  \`</think>\`, in continuation format and by a rubric that \`readsThoughts\` (visual-rag, self-play-code, a \`ThinkParser\`); other rewards of a chat read the text alone.
- Tool calls, also with object arguments, with arguments that were encoded twice, without ids; and those that the server left in its text, in the spellings of Hermes,
  Qwen3-Coder, GLM, MiniMax, Claude, DeepSeek, Mistral, Kimi, gpt-oss, Llama, Gemma, LFM2, Olmo, Granite, Phi, Command, Functionary, Hunyuan, Nemotron, InternLM, Apertus and
  Seed-OSS.
- An error in a 200, in a choice or in \`base_resp\` is an error.
- A prompt beyond the model's window ends the episode with \`prompt_too_long\` on every server, by the error's code, its token counts or its wording; before the first turn, the rollout
  failed and has no reward. A prompt that becomes shorter within a conversation fails the rollout: the server has cut its beginning off.

## What goes back

Every field of an assistant message and of its calls that a server gave and no request sets goes back unchanged with that turn: thoughts, their signatures (\`extra_content\`,
\`reasoning_details\`, \`thinking_blocks\`, \`provider_specific_fields\`), content in parts with thoughts. Some servers demand it, others reject it; after a rejection it stays away.

## Stop strings

The text that is kept ends with its stop string, as from a policy by token ids. Every stop string is searched in what came; the text ends there even if the server went on, and the
run says so. Where the server took the string out, it is put back:

1. from \`stop_reason\` (vLLM), \`matched_stop\` (SGLang), \`stop_sequence\` or \`stopping_word\`, if the server names it;
2. otherwise from the tag that is open, if it is open outside thoughts and no complete answer comes before its end. This is a **guess**: the summary and the results count
   \`guessed_stops\`.

\`--strict-stops\` ends the run at the first guess. \`-S '{"stop": null}'\` sends no stop strings, so that the texts are cut here without any guess; the model then writes more tokens than are
kept.

## Waiting and limits

A 429 or 529 holds the run back, within \`--max-wait\`; an account without money ends it, with what is finished kept; servers that answer only streams are asked for
streams ([vf-eval.md](vf-eval.md)). All servers are treated alike here.
`;

/** The whole document. */
export function providersDoc(recordings: readonly Recording[] = readRecordings()): string {
  return [
    INTRODUCTION,
    '## Servers and models',
    '',
    '| server | model | what to set | sent | read | approximated |',
    '|---|---|---|---|---|---|',
    ...recordings.map(({ server, model, doc }) => row([server, model, doc.set, doc.sent, doc.read, doc.approximated])),
    '',
    '## What is played, and from where it is known',
    '',
    '| server | model | recorded | sources |',
    '|---|---|---|---|',
    ...recordings.map(({ server, model, plays, sources }) =>
      row([server, model, plays.map(({ name }) => name).join('; '), sources.map((source, i) => `[${i + 1}](${source})`).join(' ')]),
    ),
    '',
  ].join('\n');
}

function row(cells: readonly string[]): string {
  return `| ${cells.map((cell) => cell.replaceAll('|', String.raw`\|`)).join(' | ')} |`;
}

if (process.argv[1] === import.meta.filename) writeFileSync(join(import.meta.dirname, '../docs/providers.md'), providersDoc());
