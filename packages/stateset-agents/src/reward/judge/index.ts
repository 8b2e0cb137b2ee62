export { createJudge, type Judge, type JudgeOptions, type JudgeStats, type Question } from "./judge.ts";
export { type JudgeModel, JudgeModelError, type JudgeReply, type JudgeRequest } from "./judge-model.ts";
export { JudgeReward, type JudgeRewardOptions, judgeReward } from "./judge-reward.ts";
export { type OpenAIJudgeModelOptions, openaiJudgeModel } from "./openai-judge-model.ts";
export { policyJudgeModel } from "./policy-judge-model.ts";
