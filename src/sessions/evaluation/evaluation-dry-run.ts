/** The output of `--dry-run`: all resolved settings, and the first prompt as the policy would see it. */
import type { PolicyCapabilities } from '../../clients/policy-client.ts';
import { agentOf, needsNoPolicy } from '../../core/agent-env.ts';
import { Random } from '../../core/random.ts';
import type { ToolSpec } from '../../core/tool-calls.ts';
import { hideSecrets } from '../../transport/redact.ts';
import { countText, plural } from '../../reports/text/number-text.ts';
import { factLines, promptText } from '../../reports/text/report.ts';
import { escapeControls } from '../../reports/text/terminal-text.ts';
import { describeRun } from '../../reports/evaluation/describe-run.ts';
import type { OpenedEvaluation } from './open-evaluation.ts';

export async function evaluationDryRun(prepared: OpenedEvaluation, name: string | null, signal: AbortSignal): Promise<string> {
  const { request, opened, policy, roles, counts, environmentArgs } = prepared;
  const { rows, rolloutsPerRow, seed, shuffleSeed } = counts;
  const { environment } = opened;
  const ordered = request.shuffle === true ? environment.eval.shuffle(Random.fromSeed(shuffleSeed)) : environment.eval;
  const row = ordered.at(0);
  const isAgent = agentOf(environment, row) !== null;
  const isProgram = needsNoPolicy(environment);
  const facts: [string, string][] = [
    ['environment', `${environment.id}${name === null ? '' : ` (${name})`}, ${isAgent ? 'an agent' : `${environment.turnFormat} format`}`],
    ['-a and -x', JSON.stringify(hideSecrets(environmentArgs))],
    [
      'data',
      `${environment.eval.name}: ${countText(rows)} of ${plural(environment.eval.length, 'row')} × ${plural(rolloutsPerRow, 'rollout')}, seed ${seed}`,
    ],
    isProgram ? ['models', policy.description ?? 'none'] : ['policy', `${policy.description}, model ${policy.model}`],
    ...[...roles.descriptions].map(([role, text]): [string, string] => ['role', `${role}: ${text}`]),
    ...(isProgram ? [] : [['sampling', JSON.stringify(describeRun(prepared).sampling_args)] as [string, string]]),
    ...provenanceLines(environment.provenance ?? {}),
  ];
  const options = { random: Random.fromSeed(seed), models: roles.models.models, signal };
  await using episode = isAgent ? null : await environment.start(row, options);
  const { prompt } = episode ?? row;
  const { stop = [], tools = [] } = episode ?? {};
  const stops = stop.length === 0 ? '' : `\n\nstops at ${stop.map((s) => JSON.stringify(s)).join(', ')}`;
  return [
    'Dry run: nothing is played and nothing is written.',
    '',
    ...factLines(facts, 13),
    '',
    `${promptText(isAgent ? 'First question' : 'First prompt', row, prompt)}${stops}`,
    '',
    ...toolLines(tools, policy.client.capabilities.kind),
  ].join('\n');
}

/** The sources of rows, corpus and the like; leaves out empty parts. */
function provenanceLines(provenance: Readonly<Record<string, unknown>>): [label: string, text: string][] {
  const isEmpty = (value: unknown) => typeof value === 'object' && value !== null && Object.keys(value).length === 0;
  return Object.entries(provenance)
    .filter(([, value]) => !isEmpty(value))
    .map(([name, value]) => [name, typeof value === 'string' ? value : JSON.stringify(value)]);
}

/** The native tools, which the policy reads in addition to the messages. */
function toolLines(tools: readonly ToolSpec[], kind: PolicyCapabilities['kind']): string[] {
  if (tools.length === 0) return [];
  const place =
    kind === 'tokens'
      ? "the model's chat template adds them with their schemas to the prompt, which is therefore longer than shown above"
      : 'sent with their schemas next to the messages; the server adds them to the prompt';
  const lines = tools.map(({ name, description }) => `  ${escapeControls(name)}: ${escapeControls(description)}`);
  return [`Native tools (${place})`, ...lines, ''];
}
