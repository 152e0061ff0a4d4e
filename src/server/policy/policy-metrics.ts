/** Contents of `/metrics` in Prometheus' text format, with vLLM's names, so that its dashboards work. */
import type { EngineStats } from '../../engine/engine-types.ts';

/** vLLM's own buckets, in seconds. */
const LATENCY_BUCKETS = [0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680];
const FIRST_TOKEN_BUCKETS = [0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560];

export class PolicyMetrics {
  /** Latency of finished generations. */
  readonly latency = new Histogram(LATENCY_BUCKETS);
  /** Only for streamed generations; others have no visible first token. */
  readonly firstToken = new Histogram(FIRST_TOKEN_BUCKETS);
  readonly #running = new Map<string, number>();

  /** Counts a generation through an adapter as running until the returned function is called. */
  begin(adapter: string | null): () => void {
    if (adapter === null) return () => {};
    this.#running.set(adapter, (this.#running.get(adapter) ?? 0) + 1);
    return () => {
      const left = this.#running.get(adapter)! - 1;
      if (left === 0) this.#running.delete(adapter);
      else this.#running.set(adapter, left);
    };
  }

  text(stats: EngineStats, { model, maxAdapters }: { readonly model: string; readonly maxAdapters: number }): string {
    const labels = `engine="0",model_name="${escaped(model)}"`;
    const one = (name: string, kind: 'gauge' | 'counter', help: string, value: number) =>
      metric(name, kind, help, [`vllm:${name}{${labels}} ${value}`]);
    const lora = `max_lora="${maxAdapters}",running_lora_adapters="${escaped([...this.#running.keys()].join(','))}",waiting_lora_adapters=""`;
    const finished = Object.entries(stats.finished).map(
      ([reason, count]) => `vllm:request_success_total{${labels},finished_reason="${reason}"} ${count}`,
    );
    return [
      ...one('num_requests_running', 'gauge', 'Running requests', stats.requestsRunning),
      ...one('num_requests_waiting', 'gauge', 'Waiting requests', stats.requestsWaiting),
      ...one('kv_cache_usage_perc', 'gauge', 'Share of the cache held by running requests, 0 to 1', stats.cacheUse),
      ...one('prompt_tokens_total', 'counter', 'Prompt tokens', stats.promptTokens),
      ...one('generation_tokens_total', 'counter', 'Sampled tokens', stats.generatedTokens),
      ...one('prefix_cache_queries_total', 'counter', 'Prompt tokens looked up in the prefix cache', stats.promptTokens),
      ...one('prefix_cache_hits_total', 'counter', 'Prompt tokens found in the prefix cache', stats.cachedTokens),
      ...one('num_preemptions_total', 'counter', 'Preempted requests', stats.preemptions),
      ...metric('request_success_total', 'counter', 'Finished requests, by reason', finished),
      ...metric('lora_requests_info', 'gauge', 'Adapters in use; the value is the time', [`vllm:lora_requests_info{${lora}} ${Date.now() / 1000}`]),
      ...this.latency.lines('e2e_request_latency_seconds', 'From request to last token', labels),
      ...this.firstToken.lines('time_to_first_token_seconds', 'From request to first token, streamed requests only', labels),
      '',
    ].join('\n');
  }
}

class Histogram {
  readonly #bounds: readonly number[];
  readonly #counts: number[];
  #sum = 0;

  constructor(bounds: readonly number[]) {
    this.#bounds = bounds;
    this.#counts = Array.from({ length: bounds.length + 1 }, () => 0);
  }

  observe(seconds: number): void {
    const at = this.#bounds.findIndex((bound) => seconds <= bound);
    this.#counts[at < 0 ? this.#bounds.length : at]! += 1;
    this.#sum += seconds;
  }

  lines(name: string, help: string, labels: string): string[] {
    let total = 0;
    const buckets = this.#counts.map((count, i) => {
      total += count;
      return `vllm:${name}_bucket{${labels},le="${this.#bounds[i] ?? '+Inf'}"} ${total}`;
    });
    return metric(name, 'histogram', help, [...buckets, `vllm:${name}_sum{${labels}} ${this.#sum}`, `vllm:${name}_count{${labels}} ${total}`]);
  }
}

function metric(name: string, kind: 'gauge' | 'counter' | 'histogram', help: string, samples: readonly string[]): string[] {
  return [`# HELP vllm:${name} ${help}`, `# TYPE vllm:${name} ${kind}`, ...samples];
}

function escaped(label: string): string {
  return label.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n');
}
