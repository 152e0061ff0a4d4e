/** The packages of the wire, which a user installs separately, because most users need neither. */
import type * as msgpack from '@msgpack/msgpack';
import type * as zeromq from 'zeromq';
import { ConfigError } from '../../core/errors.ts';

export interface WireLibraries {
  readonly zeromq: typeof zeromq;
  readonly msgpack: typeof msgpack;
}

const INSTALL = 'npm install zeromq@6.8.0 @msgpack/msgpack@3.1.3';

/** Throws ConfigError with the command that installs them. */
export async function loadWireLibraries(): Promise<WireLibraries> {
  try {
    const [sockets, encoding] = await Promise.all([import('zeromq'), import('@msgpack/msgpack')]);
    return { zeromq: sockets, msgpack: encoding };
  } catch (cause) {
    const isMissing = (cause as NodeJS.ErrnoException).code === 'ERR_MODULE_NOT_FOUND';
    const what = isMissing ? 'needs the packages zeromq and @msgpack/msgpack, and not both are installed' : 'could not load its packages';
    throw new ConfigError(`The wire of verifiers ${what}. Install them: ${INSTALL}`, { cause });
  }
}
