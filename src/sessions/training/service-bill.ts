/** What the training service has computed for a run, in all of its processes: `service-tokens.jsonl`, of which a resume drops nothing, because repeated work is paid for too. */
import { LineAppender } from '../../files/json-lines.ts';
import { parseWire } from '../../schemas/results.ts';
import { ServiceTokensSchema } from '../../schemas/training-records.ts';
import { NO_SERVICE_TOKENS, plusServiceTokens, type ServiceTokens, type TokenMeter } from '../../tinker/service/token-meter.ts';
import { recoverLines } from '../../trainer/records/recover-lines.ts';
import { serviceCost, type ServicePrice } from './service-price.ts';

export interface ServiceBillOptions {
  readonly path: string;
  readonly price: ServicePrice;
  readonly meter: TokenMeter;
}

export class ServiceBill implements AsyncDisposable {
  readonly price: ServicePrice;
  readonly #file: LineAppender;
  readonly #meter: TokenMeter;
  #recorded: ServiceTokens;

  private constructor({ price, meter }: ServiceBillOptions, file: LineAppender, recorded: ServiceTokens) {
    this.price = price;
    this.#meter = meter;
    this.#file = file;
    this.#recorded = recorded;
  }

  /** Reads what earlier processes have recorded. Throws ResultsError for an invalid line. Needs the run's lock. */
  static async open(options: ServiceBillOptions): Promise<ServiceBill> {
    let recorded = NO_SERVICE_TOKENS;
    await recoverLines<ServiceTokens>(options.path, {
      parse: (text) => parseWire(ServiceTokensSchema, text),
      visit: (tokens) => (recorded = plusServiceTokens(recorded, tokens)),
      expected: 'a line of tokens',
      remedy: 'delete that line; its tokens are then missing in the cost',
    });
    return new ServiceBill(options, await LineAppender.open(options.path), recorded);
  }

  get tokens(): ServiceTokens {
    return plusServiceTokens(this.#recorded, this.#meter.tokens);
  }

  /** US dollars so far; null without a price. */
  get usd(): number | null {
    return this.price.usd === null ? null : serviceCost(this.tokens, this.price.usd);
  }

  /** Writes a line, if anything was computed since the last one. Returns its US dollars; null without a price. */
  record(): number | null {
    const tokens = this.#meter.take();
    const { prefill, sample, train } = tokens;
    if (prefill + sample + train > 0) this.#file.append([JSON.stringify({ prefill, sample, train })]);
    this.#recorded = plusServiceTokens(this.#recorded, tokens);
    return this.price.usd === null ? null : serviceCost(tokens, this.price.usd);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      this.record();
    } finally {
      await this.#file.close();
    }
  }
}
