export { createJudge, type Judge, type JudgeOptions, type JudgeStats, type Question } from "../../endpoint/judge.ts";
export { type JudgeModel, JudgeModelError, type JudgeReply, type JudgeRequest } from "../../endpoint/judge-model.ts";
export { type OpenAIJudgeModelOptions, openaiJudgeModel } from "../../endpoint/openai-judge-model.ts";
export { policyJudgeModel } from "../../endpoint/policy-judge-model.ts";
export { JudgeReward, type JudgeRewardOptions, judgeReward } from "./judge-reward.ts";
