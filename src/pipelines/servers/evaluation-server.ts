/** The server `evaluation` of UltraRAG: metrics of every answer and their means. A failed question has no value and is in no mean. */
import { dirname, extname } from 'node:path';
import { folderProblem, makeFolder } from '../../files/make-folder.ts';
import { replaceFile } from '../../files/json-lines.ts';
import { computeMetrics, isQaMetric, QA_METRICS } from '../../metrics/qa-metrics.ts';
import { listOf, textOrNull } from '../../schemas/json-schema.ts';
import { suggestion } from '../../core/closest-name.ts';
import { PipelineFileError } from '../pipeline-error.ts';
import type { PipelineServer, Values } from '../pipeline-server.ts';

const METRICS = ['acc', 'f1', 'em', 'coverem', 'stringem', 'rouge-1', 'rouge-2', 'rouge-l'];

export function evaluationServer(): PipelineServer {
  return {
    parameters: {
      metrics: { type: ['array', 'null'], items: { type: 'string' }, default: METRICS },
      save_path: { type: ['string', 'null'], default: 'output/evaluate_results.json' },
    },
    tools: {
      evaluate: {
        io: 'pred_ls,gt_ls,metrics,save_path->eval_res',
        description: 'metrics by question and their means (avg_...), also in the file save_path with the time in its name',
        arguments: { pred_ls: listOf(textOrNull), gt_ls: listOf({}) },
        isPerItem: true,
        takesFailed: true,
        check: async ({ metrics, save_path }) => {
          assertKnown(metrics as readonly string[] | null);
          assertWritable(save_path);
        },
        run: async ({ pred_ls, gt_ls, metrics, save_path }) => {
          const result = evaluate(pred_ls as Predictions, gt_ls as readonly unknown[], metrics as readonly string[] | null);
          if (typeof save_path === 'string' && save_path !== '') await save(save_path, result);
          return { eval_res: result };
        },
      },
    },
  };
}

type Predictions = readonly (string | null)[];

function evaluate(predictions: Predictions, golden: readonly unknown[], metrics: readonly string[] | null): Values {
  const scored = predictions.flatMap((prediction, i) => (prediction === null ? [] : [i]));
  const computed = computeMetrics(
    scored.map((i) => predictions[i]!),
    scored.map((i) => answersOf(golden[i])),
    { metrics },
  );
  const failed = predictions.length - scored.length;
  if (failed === 0) return computed;
  const whole = Object.entries(computed).map(([name, value]) => [name, Array.isArray(value) ? scattered(value, scored, predictions.length) : value]);
  return { ...Object.fromEntries(whole), failed };
}

/** Some benchmarks give one answer as a string. */
function answersOf(golden: unknown): readonly string[] {
  return (Array.isArray(golden) ? golden : [golden]).map(String);
}

function scattered(values: readonly number[], places: readonly number[], length: number): readonly (number | null)[] {
  const whole: (number | null)[] = Array.from({ length }, () => null);
  places.forEach((place, i) => (whole[place] = values[i]!));
  return whole;
}

function assertKnown(metrics: readonly string[] | null): void {
  const stranger = metrics?.find((name) => !isQaMetric(name.toLowerCase()));
  if (stranger === undefined) return;
  const message = `evaluation.metrics has ${JSON.stringify(stranger)}, which is not a metric${suggestion(stranger, QA_METRICS)}; there are ${QA_METRICS.join(', ')}`;
  throw new PipelineFileError(message, { fault: 'parameter' });
}

function assertWritable(path: unknown): void {
  if (typeof path !== 'string' || path === '') return;
  const problem = folderProblem(dirname(path));
  if (problem === null) return;
  const message = `evaluation.save_path ${path} cannot be written: ${problem}. Name another file, or null for none.`;
  throw new PipelineFileError(message, { fault: 'parameter' });
}

/** `output/asqa.json` becomes `output/asqa_20251123_140501.json`, as UltraRAG names it. */
async function save(path: string, result: Values): Promise<void> {
  const extension = extname(path);
  const time = new Date().toISOString().replace(/[-:]/g, '').replace('T', '_').slice(0, 15);
  makeFolder(dirname(path));
  await replaceFile(`${path.slice(0, path.length - extension.length)}_${time}${extension || '.json'}`, (write) =>
    write(Buffer.from(`${JSON.stringify(result, null, 2)}\n`, 'utf8')),
  );
}
