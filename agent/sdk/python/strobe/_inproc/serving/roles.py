"""What a process does in its service or job: an inference server says so in its configuration, and
actors of RL frameworks have classes and names that do.
"""

from __future__ import annotations

# By class: verl's, slime's and OpenRLHF's. slime trains actors and critics by one class.
_BY_CLASS = {
    "ActorRolloutRefWorker": "actor",
    "AsyncActorRolloutRefWorker": "actor",
    "CriticWorker": "critic",
    "RewardModelWorker": "reward",
    "vLLMHttpServer": "rollout",
    "SGLangHttpServer": "rollout",
    "MegatronTrainRayActor": "trainer",
    "FSDPTrainRayActor": "trainer",
    "SGLangEngine": "rollout",
    "PolicyModelActor": "actor",
    "CriticModelActor": "critic",
    "ReferenceModelActor": "ref",
    "RewardModelActor": "reward",
    "LLMRayActor": "rollout",
    "LLMRayActorAsync": "rollout",
}
# By a part of the name, which says more than the class: verl's.
_BY_NAME = {"server_reward_": "reward", "server_teacher_": "teacher", "llm_server_": "rollout"}
_RAY = "ray::"


def role_of_actor(title: str | None) -> tuple[str | None, str | None]:
    """The role, and what says so; `title` is process.title()."""
    if title is None or not title.startswith(_RAY):
        return None, None
    kind, _, name = title[len(_RAY) :].partition(" ")
    for part, role in _BY_NAME.items():
        if part in name:
            return role, f"name of Ray's actor: {name}"
    role = _BY_CLASS.get(kind)
    return (role, f"class of Ray's actor: {kind}") if role is not None else (None, None)
