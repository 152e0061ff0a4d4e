/** `vf-rounds report`: the funnel over the manifests of stages, and the scores and times in a trace. */
import { type Command } from 'commander';
import { ConfigError } from '../../core/errors.ts';
import { type Analysis, analyse } from '../../rounds/analyses.ts';
import { type FunnelStage, funnelRows, readFunnel } from '../../rounds/funnel.ts';
import { readTraces, type Traces } from '../../rounds/read-traces.ts';
import { snakeKeys } from '../../schemas/key-case.ts';
import { EXIT } from '../command-line.ts';
import { collected } from '../serve/option-values.ts';
import type { RoundAction } from './stage-command.ts';

const HELP = `
Name folders into which stages wrote, or single files of theirs. Every file that
a stage read or wrote is compared with the SHA-256 in its manifest; if one has
changed, the chain is broken and nothing is reported.
  vf-rounds report round-1
  vf-rounds report round-1/sft.jsonl --markdown

--trace adds what a trace says: shares of success, answers that are right
without their page, wrong ones with it, rollouts without a search, and the
latencies of search, generator and judge.`;

interface ReportFlags {
  readonly trace?: readonly string[];
  readonly markdown?: true;
  readonly json?: true;
}

export function addReportCommand(program: Command, act: (action: RoundAction) => void): void {
  program
    .command('report')
    .description('Checks every file and shows how many rows each stage left')
    .argument('[paths...]', 'folders, manifests or outputs of stages')
    .option('--trace <file>', 'a trace to analyse; may be repeated', collected)
    .option('--markdown', 'tables in Markdown')
    .option('--json', 'one JSON object')
    .addHelpText('after', HELP)
    .action((paths: readonly string[], flags: ReportFlags) => {
      act(async () => {
        if (paths.length + (flags.trace ?? []).length === 0)
          throw new ConfigError('Name a folder of stages, or a trace with --trace (see vf-rounds report --help)');
        process.stdout.write(await reportText(paths, flags));
        return EXIT.done;
      });
    });
}

/** Throws ResultsError if a file is not the one that its manifest names. */
export async function reportText(paths: readonly string[], { trace = [], markdown, json }: ReportFlags): Promise<string> {
  const stages = await readFunnel(paths);
  const traces = trace.length === 0 ? null : await readTraces(trace, { withTexts: false });
  const analysis = traces === null ? null : { ...analyse(traces.rollouts), counts: traces.counts };
  return json === true ? jsonText(stages, analysis) : tablesText(stages, analysis, markdown === true);
}

type TraceAnalysis = Analysis & { readonly counts: Traces['counts'] };
type Table = { readonly head: readonly string[]; readonly rows: readonly (readonly string[])[] };

function jsonText(stages: readonly FunnelStage[], analysis: TraceAnalysis | null): string {
  const { successRates = null, latencies = null, ...figures } = analysis ?? {};
  const trace = analysis === null ? {} : { trace: { ...(snakeKeys(figures) as object), success_rates: successRates, latencies_ms: latencies } };
  return `${JSON.stringify({ schema_version: 1, stages, ...trace })}\n`;
}

function tablesText(stages: readonly FunnelStage[], analysis: TraceAnalysis | null, isMarkdown: boolean): string {
  const tables = [
    ...(stages.length === 0 ? [] : [{ head: ['stage', 'in', 'out', 'rule'], rows: funnelRows(stages, process.cwd()) }]),
    ...(analysis === null ? [] : analysisTables(analysis)),
  ];
  return tables.map((table) => (isMarkdown ? markdownText(table) : plainText(table))).join('\n');
}

const NOT_JUDGED = 'not judged';

function analysisTables(analysis: TraceAnalysis): Table[] {
  const { latencies, successRates, counts } = analysis;
  const unjudged = analysis.judged === 0 ? 0 : analysis.rollouts - analysis.judged;
  const number = (value: number) => String(Math.round(value * 1000) / 1000);
  const mean = (value: number | null, none: string) => (value === null ? none : number(value));
  const share = (value: number | null, all = analysis.judged) =>
    value === null ? NOT_JUDGED : `${value} (${all === 0 ? 0 : Math.round((1000 * value) / all) / 10} %)`;
  const facts: [string, string][] = [
    ['prompts', String(analysis.prompts)],
    [
      'rollouts',
      `${analysis.rollouts}${counts.failed === 0 ? '' : `, ${counts.failed} failed`}${counts.incomplete === 0 ? '' : `, ${counts.incomplete} incomplete`}${unjudged === 0 ? '' : `, ${unjudged} not judged`}${counts.unplaced === undefined ? '' : `; ${counts.unplaced} events without uid or sample_idx`}`,
    ],
    [
      'mean reward, judge, NDCG',
      [number(analysis.rewardMean), mean(analysis.judgeMean, NOT_JUDGED), mean(analysis.ndcgMean, 'not measured')].join(', '),
    ],
    [
      'prompts by share of successes',
      successRates === null
        ? NOT_JUDGED
        : Object.entries(successRates)
            .map(([name, count]) => `${name}: ${count}`)
            .join(', '),
    ],
    ['right from another page of the document', share(analysis.rightFromSameDocument)],
    ['right without its document', share(analysis.rightUnsupported)],
    ['wrong with all golden pages', share(analysis.wrongWithGoldenPages)],
    ['without a search', share(analysis.zeroSearch, analysis.rollouts)],
  ];
  const times = Object.entries(latencies).flatMap(([name, { call, wait }]) => [
    [name, ...[call.count, call.p50, call.p95, call.p99, call.max].map(number)],
    ...(wait === null ? [] : [[`${name}, waiting`, ...[wait.count, wait.p50, wait.p95, wait.p99, wait.max].map(number)]]),
  ]);
  return [
    { head: ['trace', ''], rows: facts },
    ...(times.length === 0 ? [] : [{ head: ['milliseconds', 'calls', 'p50', 'p95', 'p99', 'max'], rows: times }]),
  ];
}

function plainText({ head, rows }: Table): string {
  const widths = head.map((cell, i) => Math.max(cell.length, ...rows.map((row) => row[i]!.length)));
  const line = (row: readonly string[]) =>
    row
      .map((cell, i) => (i === row.length - 1 ? cell : cell.padEnd(widths[i]! + 2)))
      .join('')
      .trimEnd();
  return `${[head, ...rows].map(line).join('\n')}\n`;
}

function markdownText({ head, rows }: Table): string {
  const line = (row: readonly string[]) => `| ${row.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
  return `${[line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n')}\n`;
}
