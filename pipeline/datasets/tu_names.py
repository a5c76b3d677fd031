"""Names of the TUDataset collection (www.chrsmrrs.com/graphkerneldatasets), for lists and suggestions."""

_CELL_LINES = (
    "MCF-7 MOLT-4 NCI-H23 OVCAR-8 P388 PC-3 SF-295 SN12C SW-620 UACC257 Yeast"  # each also with hydrogens: NAMEH
)
_TOX21 = "AhR AR AR-LBD ARE aromatase ATAD5 ER ER-LBD HSE MMP p53 PPAR-gamma"
_TEMPORAL = "dblp facebook highschool infectious mit tumblr"

_MOLECULES = """
    AIDS alchemy_full BZR BZR_MD COX2 COX2_MD DHFR DHFR_MD ER_MD FRANKENSTEIN MUTAG Mutagenicity NCI1 NCI109
    PTC_FM PTC_FR PTC_MM PTC_MR QM9 ZINC_full ZINC_test ZINC_train ZINC_val
    aspirin benzene ethanol malonaldehyde naphthalene salicylic_acid toluene uracil
"""
_BIOINFORMATICS = "DD ENZYMES KKI OHSU Peking_1 PROTEINS PROTEINS_full"
_VISION = """
    COIL-DEL COIL-RAG Cuneiform Fingerprint FIRSTMM_DB Letter-high Letter-low Letter-med MSRC_9 MSRC_21
    MSRC_21C
"""
_SOCIAL = """
    COLLAB DBLP_v1 deezer_ego_nets github_stargazers IMDB-BINARY IMDB-MULTI REDDIT-BINARY REDDIT-MULTI-5K
    REDDIT-MULTI-12K reddit_threads twitch_egos TWITTER-Real-Graph-Partial
"""
_SYNTHETIC = "COLORS-3 SYNTHETIC SYNTHETICnew Synthie TRIANGLES"

TU_NAMES: tuple[str, ...] = tuple(
    sorted(
        [
            *" ".join((_MOLECULES, _BIOINFORMATICS, _VISION, _SOCIAL, _SYNTHETIC, _CELL_LINES)).split(),
            *(f"{name}H" for name in _CELL_LINES.split()),
            *(f"Tox21_{assay}_{part}" for assay in _TOX21.split() for part in ("training", "testing", "evaluation")),
            *(f"{name}_ct{task}" for name in _TEMPORAL.split() for task in (1, 2)),
        ],
        key=str.lower,
    )
)
