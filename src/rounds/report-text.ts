/** The funnel over the manifests of stages, and what a trace says about scores and time. */
import { type Analysis, analyse } from './analyses.ts';
import { type FunnelStage, funnelTable, namesOf, readFunnel, type Table } from './funnel.ts';
import { readTraces, type Traces } from './read-traces.ts';
import { snakeKeys } from '../schemas/key-case.ts';

export interface ReportOptions {
  /** Paths of `trace.jsonl`. @default none */
  readonly trace?: readonly string[];
  /** Tables in Markdown. @default false */
  readonly markdown?: boolean;
  /** One JSON object. @default false */
  readonly json?: boolean;
}

/** Throws ResultsError if a file is not the one that its manifest names. */
export async function reportText(paths: readonly string[], { trace = [], markdown, json }: ReportOptions): Promise<string> {
  const stages = await readFunnel(paths);
  const traces = trace.length === 0 ? null : await readTraces(trace, { withTexts: false });
  const analysis = traces === null ? null : { runs: await namesOf(trace), ...analyse(traces.rollouts), counts: traces.counts };
  return json === true ? jsonText(stages, analysis) : tablesText(stages, analysis, markdown === true);
}

/** `runs`: the names of those whose traces were read. */
type TraceAnalysis = Analysis & { readonly counts: Traces['counts']; readonly runs: readonly string[] };

function jsonText(stages: readonly FunnelStage[], analysis: TraceAnalysis | null): string {
  const { successRates = null, latencies = null, ...figures } = analysis ?? {};
  const trace = analysis === null ? {} : { trace: { ...(snakeKeys(figures) as object), success_rates: successRates, latencies_ms: latencies } };
  return `${JSON.stringify({ schema_version: 1, stages, ...trace })}\n`;
}

function tablesText(stages: readonly FunnelStage[], analysis: TraceAnalysis | null, isMarkdown: boolean): string {
  const tables = [...(stages.length === 0 ? [] : [funnelTable(stages, process.cwd())]), ...(analysis === null ? [] : analysisTables(analysis))];
  return tables.map((table) => (isMarkdown ? markdownText(table) : plainTable(table))).join('\n');
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
    ...(analysis.runs.length === 0 ? [] : [['run', analysis.runs.join(', ')] as [string, string]]),
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

/** Columns for a terminal. */
export function plainTable({ head, rows }: Table): string {
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
