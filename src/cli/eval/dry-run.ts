/** What `--dry-run` prints: everything that was resolved, and the first prompt as the policy would see it. */
import { contentText } from '../../core/message.ts';
import { Random } from '../../core/random.ts';
import { hideSecrets } from '../../transport/redact.ts';
import { countText, plural } from '../number-text.ts';
import { escapeControls } from '../terminal-text.ts';
import { describeRun } from './describe-run.ts';
import type { PreparedRun } from './run-evaluation.ts';

export async function dryRunText(prepared: PreparedRun, signal: AbortSignal): Promise<string> {
  const { planned, opened, policy, roles, counts, environmentArgs } = prepared;
  const { rows, rolloutsPerExample, seed, shuffleSeed } = counts;
  const { environment } = opened;
  const ordered = planned.settings.shuffle ? environment.eval.shuffle(Random.fromSeed(shuffleSeed)) : environment.eval;
  const row = ordered.at(0);
  const facts: [string, string][] = [
    ['environment', `${environment.id}${planned.name === null ? '' : ` (${planned.name})`}, ${environment.turnFormat} format`],
    ['-a and -x', JSON.stringify(hideSecrets(environmentArgs))],
    [
      'data',
      `${environment.eval.name}: ${countText(rows)} of ${plural(environment.eval.length, 'row')} × ${plural(rolloutsPerExample, 'rollout')}, seed ${seed}`,
    ],
    ['policy', `${policy.description}, model ${policy.model}`],
    ...[...roles.descriptions].map(([role, text]): [string, string] => ['role', `${role}: ${text}`]),
    ['sampling', JSON.stringify(describeRun(prepared).sampling_args)],
    ...Object.entries(environment.provenance ?? {}).map(([name, value]): [string, string] => [
      name,
      typeof value === 'string' ? value : JSON.stringify(value),
    ]),
  ];
  await using episode = await environment.start(row, { random: Random.fromSeed(seed), models: roles.models.models, signal });
  const prompt = episode.prompt.map(({ role, content }) => `${role}:\n${escapeControls(contentText(content), { lines: true })}`);
  const stop = episode.stop.length === 0 ? '' : `\n\nstops at ${episode.stop.map((s) => JSON.stringify(s)).join(', ')}`;
  return [
    'Dry run: nothing is played and nothing is written.',
    '',
    ...facts.map(([label, text]) => `${label.padEnd(13)}${escapeControls(text)}`),
    '',
    `First prompt (row ${escapeControls(String(row.exampleId))})`,
    `${prompt.join('\n\n')}${stop}`,
    '',
  ].join('\n');
}
