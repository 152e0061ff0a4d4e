/** How passes are said to a service: protobuf, or JSON for servers of before it. Found out by the first pass if the settings do not say it. */
import { TinkerError } from './tinker-error.ts';

export type WireName = 'auto' | 'json' | 'protobuf';

/** SkyRL 0.3.0 answers protobuf with 500. */
const REFUSALS: readonly (number | null)[] = [400, 415, 422, 500, 501];

export class PassDialect {
  #known: 'json' | 'protobuf' | null;

  constructor(wire: WireName) {
    this.#known = wire === 'auto' ? null : wire;
  }

  /** Null until a pass was accepted. */
  get known(): 'json' | 'protobuf' | null {
    return this.#known;
  }

  /** Sends a pass in the known dialect, or in protobuf and, if the service refuses that, in JSON. */
  async send<T>(send: (wire: 'json' | 'protobuf', isTrial: boolean) => Promise<T>): Promise<T> {
    if (this.#known !== null) return send(this.#known, false);
    let refusal: TinkerError;
    try {
      const answer = await send('protobuf', true);
      this.#known = 'protobuf';
      return answer;
    } catch (error) {
      if (!(error instanceof TinkerError) || !REFUSALS.includes(error.status)) throw error;
      refusal = error;
    }
    try {
      const answer = await send('json', true);
      this.#known = 'json';
      return answer;
    } catch (error) {
      // Where both are refused, the pass itself is: what was said about JSON can be read.
      if (!(error instanceof TinkerError)) throw error;
      throw new TinkerError(`${error.message} (in protobuf: ${refusal.message})`, {
        cause: error,
        isGone: error.isGone,
        ...(error.status === null ? {} : { status: error.status }),
      });
    }
  }
}
