import { isAnswer } from "../conversation/failure.ts";
import { totalOf } from "../conversation/total.ts";
import type { TokenChain, Trajectory, TrajectoryGroup } from "../conversation/trajectory.ts";
import { StatesetError } from "../error.ts";

/**
 * Groups that somebody brings, checked, with their arrays as the library has them: what was read back from JSON has plain lists.
 * Whatever is wrong is named with its place, since a log-prob too few would otherwise teach the wrong token in silence.
 */
export function checkGroups(groups: readonly TrajectoryGroup[], where: string): TrajectoryGroup[] {
  if (!Array.isArray(groups)) throw invalid(where, "no list of groups");
  return groups.map((group: TrajectoryGroup, g) => {
    const at = `groups[${g}]`;
    if (!Array.isArray(group?.trajectories)) throw invalid(where, `no trajectories in ${at}`);
    return {
      ...group,
      trajectories: group.trajectories.map((one, i) => checkTrajectory(one, `${at}.trajectories[${i}]`, where)),
    };
  });
}

function checkTrajectory(trajectory: Trajectory, at: string, where: string): Trajectory {
  const { chains, reward, turns, temperature, failure } = trajectory ?? {};
  if (failure !== undefined && !(reward && isAnswer(failure)))
    throw invalid(where, `${at}, which failed: ${failure.message}`);
  if (!Array.isArray(chains)) throw invalid(where, `no chains in ${at}`);
  if (!Array.isArray(turns)) throw invalid(where, `no turns in ${at}`);
  if (!reward || !Number.isFinite(totalOf(reward))) {
    throw invalid(where, `no finite reward in ${at}: ${reward && String(totalOf(reward))}`);
  }
  if (!(temperature > 0)) {
    throw invalid(where, `the temperature ${temperature} in ${at}`, "Say the one its tokens were sampled at.");
  }
  const checked = chains.map((chain, c) => checkChain(chain, `${at}.chains[${c}]`, where));
  return { ...trajectory, chains: checked, reward: { ...reward, breakdown: reward.breakdown ?? {} } };
}

const kinds = { tokens: Int32Array, logprobs: Float32Array, learn: Uint8Array, turn: Int32Array } as const;

function checkChain(chain: TokenChain, at: string, where: string): TokenChain {
  const arrays = Object.entries(kinds).map(([name, kind]) => {
    const given = chain?.[name as keyof typeof kinds] as unknown;
    if (!Array.isArray(given) && !ArrayBuffer.isView(given)) throw invalid(where, `no ${name} in ${at}`);
    return [
      name,
      given instanceof kind ? given : kind.from(Array.from(given as unknown as ArrayLike<unknown>, Number)),
    ] as const;
  });
  const { tokens, logprobs, learn, turn } = Object.fromEntries(arrays) as unknown as TokenChain;
  for (const [name, { length }] of Object.entries({ logprobs, learn, turn })) {
    if (length !== tokens.length) throw invalid(where, `${length} ${name} for ${tokens.length} tokens in ${at}`);
  }
  const bad = logprobs.findIndex((logprob, i) => learn[i] === 1 && !(logprob <= 0 && logprob > -Infinity));
  if (bad >= 0) {
    throw invalid(
      where,
      `the log-prob ${logprobs[bad]} at token ${bad} of ${at}`,
      "Give those the tokens were sampled with.",
    );
  }
  return { ...chain, tokens, logprobs, learn, turn };
}

function invalid(where: string, what: string, hint?: string): StatesetError {
  return new StatesetError("INVALID_DATA", `${where} was given ${what}.`, hint === undefined ? {} : { hint });
}
